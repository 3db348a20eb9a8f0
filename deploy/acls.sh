#!/usr/bin/env bash
# What a worker may do on a cluster with ACLs, and no more; and, for other users, to make the topics and to be a gateway.
#
#   BOOTSTRAP=kafka:9092 WORKER=User:apportion CREATOR=User:deployer deploy/acls.sh --command-config admin.properties
#
# Names are those of the worker's own settings (APPORTION_APP_ID, APPORTION_TOPIC_PREFIX, APPORTION_REQUESTS_TOPIC, …), with
# the same defaults; the arguments go to kafka-acls.sh. CREATOR and GATEWAY may be left out. Adding what is there changes nothing.
set -euo pipefail

bootstrap=${BOOTSTRAP:?the brokers, host:port}
worker=${WORKER:?the principal of the workers, as in User:apportion}
app_id=${APPORTION_APP_ID:-apportion}
prefix=${APPORTION_TOPIC_PREFIX:-}
acls=${KAFKA_ACLS:-kafka-acls.sh}
options=("$@")

topic() { # the prefix stands before a name that does not begin with it
  case $1 in "$prefix"*) echo "$1" ;; *) echo "$prefix$1" ;; esac
}

requests=$(topic "${APPORTION_REQUESTS_TOPIC:-context-requests}")
policies=$(topic "${APPORTION_POLICIES_TOPIC:-context-policies}")
composed=$(topic "${APPORTION_COMPOSED_TOPIC:-context-composed}")
decisions=$(topic "${APPORTION_DECISIONS_TOPIC:-context-decisions}")
dead_letters=$(topic "${APPORTION_DEAD_LETTERS_TOPIC:-context-dead-letters}")
usage=$(topic "${APPORTION_USAGE_TOPIC:-context-usage}")
changelog=$app_id-sessions-changelog
written=(--topic "$policies" --topic "$composed" --topic "$decisions" --topic "$dead_letters" --topic "$changelog")
all=(--topic "$requests" "${written[@]}")

allow() {
  "$acls" --bootstrap-server "$bootstrap" "${options[@]}" --add --force --allow-principal "$@"
}

# Outputs are read, too: at its start a worker looks whose the last answers are. Policies are written, too: a worker says
# there which it has in files. Read and Write imply Describe, and Write on a topic is all that an idempotent producer needs
# (brokers before Kafka 2.8 ask for IdempotentWrite on the cluster).
allow "$worker" --operation Read "${all[@]}" --group "$app_id"
allow "$worker" --operation Write "${written[@]}"
allow "$worker" --operation DescribeConfigs "${all[@]}"
if [[ ${APPORTION_GUARANTEE:-effectively_once} == exactly_once ]]; then
  # one id for each partition: app_id, requests topic and number, with colons between them
  allow "$worker" --operation Write --transactional-id "$app_id:$requests:" --resource-pattern-type prefixed
fi

if [[ -n ${GATEWAY:-} ]]; then # apportion gateway: it publishes requests, and finds the answers to its own
  answers=(--topic "$composed" --topic "$decisions" --topic "$dead_letters")
  allow "$GATEWAY" --operation Write --topic "$requests"
  allow "$GATEWAY" --operation Read "${answers[@]}"
  allow "$GATEWAY" --operation Describe --operation DescribeConfigs "${all[@]}" # it checks the topics, as a worker does
fi

if [[ -n ${CREATOR:-} ]]; then # apportion topics create, topics check
  allow "$CREATOR" --operation Create --operation Describe --operation DescribeConfigs "${all[@]}" --topic "$usage"
fi
