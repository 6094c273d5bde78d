"""The cluster network as pods see it: names, Services, the way to other nodes, NetworkPolicies."""
