"""What the analysis concludes, as data: the contract of findings.json, and the one place where its words stand."""
