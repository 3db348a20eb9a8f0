// Prints each composed event once: node consume.js BROKERS TOPIC GROUP, until Ctrl-C or SIGTERM.
import { Kafka, logLevel } from "kafkajs";

interface Composed { decision_id: string; status: string; tokens: { used: number } }

const SEEN_MAX = 100_000; // a repeat comes soon, in the same partition
const [brokers = "localhost:9092", topic = "context-composed", groupId = "example"] = process.argv.slice(2);
const kafka = new Kafka({ clientId: groupId, brokers: brokers.split(","), logLevel: logLevel.ERROR });
const consumer = kafka.consumer({ groupId, readUncommitted: false });
const seen = new Set<string>();

async function main(): Promise<void> {
  for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, () => void consumer.disconnect());
  await consumer.connect();
  await consumer.subscribe({ topics: [topic], fromBeginning: true });
  await consumer.run({
    autoCommit: false, // handle, then commit: after a restart, uncommitted events are read again
    eachMessage: async ({ partition, message }) => {
      const event = JSON.parse(message.value?.toString() ?? "") as Composed;
      if (!seen.has(event.decision_id)) {
        console.log(event.decision_id, event.status, event.tokens.used); // your part
        seen.add(event.decision_id);
        if (seen.size > SEEN_MAX) for (const oldest of seen) { seen.delete(oldest); break; }
      }
      await consumer.commitOffsets([{ topic, partition, offset: (BigInt(message.offset) + 1n).toString() }]);
    },
  });
}

main().catch((error: unknown) => { console.error(error); process.exit(1); });
