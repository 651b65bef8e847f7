"""What the installation measures of itself: for people on a page, for machines as Prometheus text. It reads, and decides nothing."""
