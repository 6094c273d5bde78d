"""Hold an API server against recorded answers of the real kube-apiserver.

`python -m conformance check` runs the recorded cases and prints how many exchanges agree; `record`
makes recordings. README.md beside this file gives the format of a case. Requests are sent by a
client of the checker's own: a fault of kubewright's client must not hide one of its server.
"""
