"""The study: label regimes trained with nnU-Net."""
