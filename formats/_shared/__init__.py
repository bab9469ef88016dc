"""What several formats have in common. Only formats import it.

``json``, ``text``, ``tables`` and ``shapes`` each serve one kind of file or value. What lies beside them
serves every format: `gather` collects images, classes and boxes, `pictures` finds the sizes of images, and
`codes` declares the faults that formats share.
"""
