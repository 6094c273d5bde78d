"""Server-side apply and the bookkeeping of managed fields (KEP-555)."""
