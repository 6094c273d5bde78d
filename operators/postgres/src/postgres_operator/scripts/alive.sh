#!/bin/bash
# The liveness of an instance: the server answers, and a copy can still follow its primary.
set -Eeuo pipefail

pg_isready --quiet --host=127.0.0.1 || [[ $? == 1 ]] # it rejects connections while it recovers

primary=$(</topology/primary)
[[ $HOSTNAME != "$primary" ]] || exit 0
slot=${HOSTNAME//-/_}
PGPASSWORD=$(</secrets/backup-password)
export PGPASSWORD
status=$(psql "host=$primary.$PEERS user=backup dbname=postgres connect_timeout=2" -XAtc \
    "SELECT wal_status FROM pg_replication_slots WHERE slot_name = '$slot'") || exit 0
if [[ $status == lost ]]; then
    echo "the primary no longer has what this copy has not received: it is copied anew"
    exit 1
fi
