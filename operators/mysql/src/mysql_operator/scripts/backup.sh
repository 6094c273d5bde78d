#!/bin/bash
# One backup: a dump of the database, checked. It is there when its folder has its final name;
# everything before that is swept by the next run.
set -Eeuo pipefail
umask 077

folder=/backups/$DATABASE_UID
backup=$(date -u +%Y%m%dT%H%M%SZ)
work=$folder/.$backup
started=$(date -u +%Y-%m-%dT%H:%M:%SZ)

say() { printf 'kubewright: %s\n' "$*" >&2; }

fail() {
    printf 'backup failed: %s\n' "$*" > /dev/termination-log
    exit 1
}
trap 'fail "line $LINENO: $BASH_COMMAND"' ERR

printf '[client]\nuser=backup\npassword="%s"\nhost=%s\n' "$(<"/secrets/backup-password")" "$DATABASE_HOST" > /tmp/my.cnf

mkdir -p "$folder"
rm -rf "$folder"/.[0-9]*
mkdir "$work"

say "dumping $DATABASE_NAME"
mysqldump --defaults-file=/tmp/my.cnf --single-transaction --quick --routines --events --triggers \
    --hex-blob --no-tablespaces --set-gtid-purged=OFF --default-character-set=utf8mb4 \
    "$DATABASE_NAME" | gzip > "$work/dump.sql.gz"
# mysqldump writes this line last, and not where it was cut short.
gzip --decompress --stdout "$work/dump.sql.gz" | tail -n 1 | grep --quiet '^-- Dump completed'

(cd "$work" && sha256sum -- * > checksums)
cat > "$work/manifest.json" <<JSON
{
  "name": "$backup",
  "database": "$DATABASE_NAME",
  "started": "$started",
  "completed": "$(date -u +%Y-%m-%dT%H:%M:%SZ)",
  "server": "$(mysql --defaults-file=/tmp/my.cnf -NBe 'SELECT VERSION()')",
  "bytes": $(du --bytes --summarize "$work" | cut -f1)
}
JSON
sync
mv "$work" "$folder/$backup"

# Only what succeeded counts, and what this database made.
mapfile -t kept < <(cd "$folder" && find . -mindepth 2 -maxdepth 2 -name manifest.json -printf '%h\n' | sort --reverse)
for old in "${kept[@]:$BACKUP_RETENTION}"; do
    say "removing $old"
    rm -rf "${folder:?}/$old"
done
cat "$folder/$backup/manifest.json" > /dev/termination-log
say "backup $backup is complete"
