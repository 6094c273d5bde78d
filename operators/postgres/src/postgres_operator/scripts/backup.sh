#!/bin/bash
# One backup: a dump of the database and of the roles, and a copy of the whole cluster, checked.
# It is there when its folder has its final name; everything before that is swept by the next run.
set -Eeuo pipefail
umask 077

folder=/backups/$DATABASE_UID
name=$(date -u +%Y%m%dT%H%M%SZ)
work=$folder/.$name
started=$(date -u +%Y-%m-%dT%H:%M:%SZ)

say() { printf 'kubewright: %s\n' "$*" >&2; }

# What was removed is named where people look: in the pod's status.
fail() {
    printf 'backup failed: %s\n' "$*" > /dev/termination-log
    exit 1
}
trap 'fail "line $LINENO: $BASH_COMMAND"' ERR

pass() {
    local role=$1 password
    password=$(<"/secrets/$role-password")
    password=${password//\\/\\\\}
    printf '*:*:*:%s:%s\n' "$role" "${password//:/\\:}"
}
{ pass backup; pass replication; } > /tmp/pgpass
export PGPASSFILE=/tmp/pgpass PGHOST=$DATABASE_HOST PGCONNECT_TIMEOUT=10

mkdir -p "$folder"
rm -rf "$folder"/.[0-9]*
mkdir "$work"

say "dumping $DATABASE_NAME"
pg_dump -U backup --format=custom --lock-wait-timeout=60s --file="$work/$DATABASE_NAME.dump" "$DATABASE_NAME"
pg_restore --list "$work/$DATABASE_NAME.dump" > /dev/null
pg_dumpall -U backup --database=postgres --globals-only --no-role-passwords > "$work/globals.sql"
tail -n 5 "$work/globals.sql" | grep --quiet 'database cluster dump complete'

say "copying the whole cluster"
pg_basebackup -U replication -D "$work/base" -X stream -c fast --no-password
pg_verifybackup --quiet "$work/base"
tar --create --gzip --file="$work/base.tar.gz" --directory="$work" base
gzip --test "$work/base.tar.gz"
rm -rf "$work/base"

(cd "$work" && sha256sum -- * > checksums)
cat > "$work/manifest.json" <<JSON
{
  "name": "$name",
  "database": "$DATABASE_NAME",
  "started": "$started",
  "completed": "$(date -u +%Y-%m-%dT%H:%M:%SZ)",
  "server": "$(psql -U backup -d postgres -XAtc 'SHOW server_version')",
  "bytes": $(du --bytes --summarize "$work" | cut -f1)
}
JSON
sync
mv "$work" "$folder/$name"

# Only what succeeded counts, and what this database made.
mapfile -t kept < <(cd "$folder" && find . -mindepth 2 -maxdepth 2 -name manifest.json -printf '%h\n' | sort --reverse)
for old in "${kept[@]:$BACKUP_RETENTION}"; do
    say "removing $old"
    rm -rf "${folder:?}/$old"
done
cat "$folder/$name/manifest.json" > /dev/termination-log
say "backup $name is complete"
