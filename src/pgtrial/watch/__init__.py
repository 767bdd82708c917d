"""A live server, watched: what is read of it lasts in a folder, by hour, and is summed up with age."""
