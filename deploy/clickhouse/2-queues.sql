-- The topics, as ClickHouse consumes them: each record whole, as bytes, so that none stops the others.
-- Brokers and topics are those of `apportion config`; TLS and SASL stand in the server's <kafka> settings.
CREATE TABLE apportion.decisions_queue (value String)
ENGINE = Kafka
SETTINGS
    kafka_broker_list = 'localhost:9092',
    kafka_topic_list = 'context-decisions',
    kafka_group_name = 'apportion-clickhouse-decisions',
    kafka_format = 'RawBLOB',
    kafka_num_consumers = 1;

CREATE TABLE apportion.dead_letters_queue (value String)
ENGINE = Kafka
SETTINGS
    kafka_broker_list = 'localhost:9092',
    kafka_topic_list = 'context-dead-letters',
    kafka_group_name = 'apportion-clickhouse-dead-letters',
    kafka_format = 'RawBLOB',
    kafka_num_consumers = 1;
