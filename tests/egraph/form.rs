//! The closed forms that equality saturation reaches.
