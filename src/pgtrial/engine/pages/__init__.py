"""The pages that the server's memory is made of: their size, the kernel's pools, and what finding them costs."""
