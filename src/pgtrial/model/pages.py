"""What is written down of a run's pages of memory: kinds of events, and the moments of the first kind."""

PAGES = "pages"  # pools of huge pages, and under load those of the server's shared memory
TRANSLATIONS = "translations"  # misses of the processor's translation caches, by load level

BEFORE = "before"  # the server's start
UNDER_LOAD = "under load"  # just after the last load level, the server still up
AFTER = "after"  # its end, when the host's changes have been undone
