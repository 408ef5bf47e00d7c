"""Images: lock -> wheels, downloaded and verified on this host -> build context -> image, built offline."""
