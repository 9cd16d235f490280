"""Every hot kernel against the limits of the machine."""
