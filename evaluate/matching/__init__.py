"""Both sides of an evaluation, what of them is compared, and which detection is matched to which object."""
