"""The singleton jobs of the clusters."""

from dlqadmin.clusters.counts import fold, prune_hours
from dlqadmin.clusters.second_pass import WAITING, join_new_templates
from dlqadmin.leases.jobs import job

job("clusters.fold_counts", every=10, limit=30, when="EXISTS (SELECT FROM dlqadmin_clusterdelta)")(fold)
job("clusters.join", every=5, limit=60, when=WAITING)(join_new_templates)
job("clusters.prune_hours", cron="23 * * * *")(prune_hours)
