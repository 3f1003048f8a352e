"""RabbitMQ as Celery's broker."""

import logging
from typing import Any

from amqp.exceptions import PreconditionFailed
from celery.exceptions import WorkerShutdown
from celery.worker import consumer

logger = logging.getLogger(__name__)

HELP = (
    "RabbitMQ has a queue of this name already, of another kind than the quorum queue that dlqadmin needs. It holds "
    "only wake-ups: stop the workers, delete it (rabbitmqctl delete_queue NAME), start them again. If it belongs to "
    "another program, give dlqadmin a virtual host of its own. RabbitMQ said: %s"
)


class Consumer(consumer.Consumer):
    """The part of a worker that talks to the broker."""

    class Blueprint(consumer.Consumer.Blueprint):  # type: ignore[misc, valid-type]
        # Celery would declare 28 quorum queues for tasks with a countdown. There are none: delays are rows.
        default_steps = tuple(
            step for step in consumer.Consumer.Blueprint.default_steps if "delayed_delivery" not in step
        )

    def start(self) -> Any:
        """Run until told to stop; end with a word of advice if a queue is not what it should be."""
        try:
            return super().start()
        except PreconditionFailed as error:
            logger.critical(HELP, error.reply_text)
            raise WorkerShutdown(1) from error
