// Prints the types of the schemas in a folder: node generate.mjs ../../schemas > types.ts
import { readFileSync } from "node:fs";
import { compile } from "json-schema-to-typescript";

const names = ["context-request", "context-artifact", "context-composed", "context-decision"];
const events = { title: "ApportionEvent", anyOf: [], $defs: {} };
for (const name of names) {
  const text = readFileSync(`${process.argv[2]}/${name}.v1.schema.json`, "utf8");
  const { $defs, $id, $schema, ...event } = JSON.parse(text, portable);
  Object.assign(events.$defs, $defs); // the same name is the same type in all schemas
  events.$defs[event.title] = event;
  events.anyOf.push({ $ref: `#/$defs/${event.title}` });
}
const bannerComment = "// The types of events, generated from the schemas by `npm run types`.";
process.stdout.write(await compile(events, "ApportionEvent", { bannerComment, additionalProperties: false, printWidth: 110 }));

// Writes references, pairs, and objects without properties (such as chat messages) as the library reads them.
function portable(key, value) {
  if (value?.$ref) return { $ref: value.$ref };
  if (value?.prefixItems) return { ...value, items: value.prefixItems };
  return value?.type === "object" && !value.properties ? { additionalProperties: true, ...value } : value;
}
