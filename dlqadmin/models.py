"""Index of all models, so that Django finds them in their packages and keeps one migration history."""

from dlqadmin.alerts.models import Alert, Notification
from dlqadmin.clusters.models import (
    ClusterDelta,
    ClusterHour,
    ClusterJoin,
    ClusterVerdict,
    ErrorCluster,
    SplitRule,
    TemplateKey,
)
from dlqadmin.deadletters.models import DeadLetter, LetterArrival, LetterEdit, LetterText
from dlqadmin.demo.models import Member, Notice
from dlqadmin.leases.models import Epoch, FencedWrite, Heartbeat, Lease, TakeOver, Trigger
from dlqadmin.messages.models import (
    Attempt,
    Claim,
    Discard,
    KeyArrival,
    KeyVersion,
    Message,
    ProcessedId,
    QueueKey,
)
from dlqadmin.people.models import AuditEntry, Membership, Owner
from dlqadmin.queues.models import Account, AccountDelta, ConsumerSlot, SourceQueue
from dlqadmin.redrive.models import Approval, Diagnosis, Redrive, RedriveItem, RedrivePart

__all__ = [
    "Account",
    "AccountDelta",
    "Alert",
    "Approval",
    "Attempt",
    "AuditEntry",
    "Claim",
    "ClusterDelta",
    "ClusterHour",
    "ClusterJoin",
    "ClusterVerdict",
    "ConsumerSlot",
    "DeadLetter",
    "Diagnosis",
    "Discard",
    "Epoch",
    "ErrorCluster",
    "FencedWrite",
    "Heartbeat",
    "KeyArrival",
    "KeyVersion",
    "Lease",
    "LetterArrival",
    "LetterEdit",
    "LetterText",
    "Member",
    "Membership",
    "Message",
    "Notice",
    "Notification",
    "Owner",
    "ProcessedId",
    "QueueKey",
    "Redrive",
    "RedriveItem",
    "RedrivePart",
    "SourceQueue",
    "SplitRule",
    "TakeOver",
    "TemplateKey",
    "Trigger",
]
