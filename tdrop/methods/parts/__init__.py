"""What the methods are made of: settings, layers, noise, training, saving."""
