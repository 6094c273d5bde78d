"""What objects count in quotas: read by the API server's admission and by the quota controller.

Pure. It lies beside both, since neither may import the other.
"""
