"""Images: lock -> wheels, checked on this host -> build context -> image, built without a network."""
