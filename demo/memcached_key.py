"""Write a key to a memcached and read it back, in memcached's own text protocol.

python3 demo/memcached_key.py ADDRESS KEY VALUE
"""

from __future__ import annotations

import socket
import sys


def main() -> int:
    """Set, get, and print the conversation."""
    address, key, value = sys.argv[1:]
    with socket.create_connection((address, 11211), timeout=5) as connection:
        stream = connection.makefile("rwb")
        for request in (f"set {key} 0 60 {len(value)}\r\n{value}", f"get {key}"):
            print(f"> {request.splitlines()[0]}")
            stream.write(f"{request}\r\n".encode())
            stream.flush()
            while (line := stream.readline().decode().rstrip()) not in ("STORED", "END"):
                print(f"< {line}")
                if not line or line.startswith(("ERROR", "SERVER_ERROR", "CLIENT_ERROR")):
                    return 1
            print(f"< {line}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
