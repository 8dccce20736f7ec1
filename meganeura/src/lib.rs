//! Train neural networks declared as plain structs.
