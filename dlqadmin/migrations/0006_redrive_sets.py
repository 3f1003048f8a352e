import django.db.models.deletion
import dlqadmin.clock
from django.conf import settings
from django.db import migrations, models

# A redrive had one cluster and one diagnosis; now each is a part of it.
PARTS = """
INSERT INTO dlqadmin_redrivepart (redrive_id, cluster_id, diagnosis_id, letters, left_out)
SELECT redrive.id, redrive.cluster_id, redrive.diagnosis_id, count(item.id), ''
FROM dlqadmin_redrive AS redrive LEFT JOIN dlqadmin_redriveitem AS item ON item.redrive_id = redrive.id
WHERE redrive.cluster_id IS NOT NULL GROUP BY redrive.id;
UPDATE dlqadmin_redriveitem AS item SET part_id = part.id
FROM dlqadmin_redrivepart AS part WHERE part.redrive_id = item.redrive_id;
UPDATE dlqadmin_redrive SET filter_text = 'cluster:' || cluster_id WHERE cluster_id IS NOT NULL AND filter_text = '';
"""

# A redrive changes each of its letters and items: what it leaves behind stands in the way of every list of open letters
# until it is vacuumed, by default not before a fifth of the table has changed.
VACUUM = """
ALTER TABLE {table} SET (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 10000,
    autovacuum_vacuum_cost_delay = 0, autovacuum_analyze_scale_factor = 0.05)
"""


class Migration(migrations.Migration):

    dependencies = [
        ('dlqadmin', '0005_redrive'),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name='LetterEdit',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('body', models.BinaryField()),
                ('reason', models.TextField()),
                ('patch', models.TextField(blank=True, help_text='the JSON patch that made it; empty: a person wrote it')),
                ('edited_name', models.CharField(max_length=255)),
                ('edited_at', models.DateTimeField(db_default=dlqadmin.clock.ClockTimestamp())),
                ('edited_by', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('letter', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, related_name='edit', to='dlqadmin.deadletter')),
            ],
        ),
        migrations.CreateModel(
            name='RedrivePart',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('letters', models.PositiveIntegerField(help_text='frozen, or left out')),
                ('left_out', models.TextField(blank=True, help_text='the conditions of the gate that were not met')),
                ('cluster', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='redrive_parts', to='dlqadmin.errorcluster')),
                ('diagnosis', models.ForeignKey(null=True, on_delete=django.db.models.deletion.PROTECT, related_name='redrive_parts', to='dlqadmin.diagnosis')),
                ('redrive', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='parts', to='dlqadmin.redrive')),
            ],
        ),
        migrations.AddConstraint(
            model_name='redrivepart',
            constraint=models.UniqueConstraint(fields=('redrive', 'cluster'), name='one_part_per_cluster'),
        ),
        migrations.AddField(
            model_name='redriveitem',
            name='part',
            field=models.ForeignKey(db_constraint=False, db_index=False, null=True, on_delete=django.db.models.deletion.CASCADE, related_name='items', to='dlqadmin.redrivepart'),
        ),
        migrations.AlterField(
            model_name='redriveitem',
            name='redrive',
            field=models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='items', to='dlqadmin.redrive'),
        ),
        migrations.RunSQL(PARTS, migrations.RunSQL.noop),
        migrations.RunSQL(VACUUM.format(table='dlqadmin_deadletter'), migrations.RunSQL.noop),
        migrations.RunSQL(VACUUM.format(table='dlqadmin_redriveitem'), migrations.RunSQL.noop),
        migrations.AlterField(
            model_name='redriveitem',
            name='part',
            field=models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='items', to='dlqadmin.redrivepart'),
        ),
        migrations.RenameField(model_name='deadletter', old_name='sent_back_at', new_name='outcome_at'),
        migrations.AlterField(
            model_name='deadletter',
            name='outcome_at',
            field=models.DateTimeField(help_text='when its message, which was sent back to work, had its outcome', null=True),
        ),
        migrations.RemoveField(model_name='redrive', name='cluster'),
        migrations.RemoveField(model_name='redrive', name='diagnosis'),
        migrations.RemoveField(model_name='redrive', name='approved_by'),
        migrations.AlterField(
            model_name='redrive',
            name='filter_text',
            field=models.TextField(blank=True, help_text='which letters were asked for, as a filter'),
        ),
    ]
