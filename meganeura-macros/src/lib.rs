//! The derive macro of meganeura.
