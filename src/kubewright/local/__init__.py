"""The embedded control plane: store, API server, controllers, node, and the cluster of them."""
