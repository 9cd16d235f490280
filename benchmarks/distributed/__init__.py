"""One problem on several local workers."""
