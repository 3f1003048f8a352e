"""The singleton job of the queues."""

from dlqadmin.leases.jobs import job
from dlqadmin.queues import books

job("queues.fold_books", every=10, limit=30, when="EXISTS (SELECT FROM dlqadmin_accountdelta)")(books.fold)
