"""Two embedding spaces in; maps between them, matches and translations out."""
