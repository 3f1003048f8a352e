"""The singleton jobs of the dead letters: they move letters between clusters, and index what came."""

from dlqadmin.deadletters.parts import SPLITTING, move_parts
from dlqadmin.deadletters.recluster import OUTDATED, recluster
from dlqadmin.deadletters.search import NEW, index_new_letters
from dlqadmin.leases.jobs import job

job("letters.index", every=2, limit=60, when=NEW)(index_new_letters)
job("clusters.move_parts", every=5, limit=300, when=SPLITTING)(move_parts)
job("clusters.recluster", every=10, limit=300, when=OUTDATED)(recluster)
