"""What a KubeSchedulerConfiguration means for gangs: pure rules from a document to findings.

`reading` turns plain values into wire structs and says what kube-scheduler itself would refuse. `extenders`, `profiles`
and `process` hold the rules, each a generator of findings. `check` puts them together. No file is opened here, and
nothing is known of Muster's settings beyond what an `Expectations` value carries.
"""
