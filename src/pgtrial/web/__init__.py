"""A local web page over result folders: what there is, what runs, reports, two experiments side by side. Read-only."""
