#!/bin/bash
# Entry point of redis images: options and configuration files go to redis-server.
set -euo pipefail

# Tell whether the command line or the file that it names says who may connect.
says_who() {
    local word
    for word; do
        [[ $word != --protected-mode ]] || return 0
        if [[ $word == *.conf && -r $word ]] && grep -qE '^[[:space:]]*protected-mode' "$word"; then
            return 0
        fi
    done
    return 1
}

main() {
    if [[ ${1:-} == -* || ${1:-} == *.conf ]]; then
        set -- redis-server "$@"
    fi
    if [[ ${1:-} == redis-server && $(id -u) == 0 ]]; then
        find . ! -user redis -exec chown redis {} + || true
        exec gosu redis "$BASH_SOURCE" "$@"
    fi
    if [[ ${1:-} == redis-server ]]; then
        # The image's server answers everybody unless it is told otherwise.
        says_who "$@" || set -- "$@" --protected-mode no
        [[ $(umask) != 0022 ]] || umask 0077
    fi
    exec "$@"
}

main "$@"
