//! Kinds of probe as a user runs them, over test networks whose truth they do not see.

mod both_ends;
mod boxes;
mod check;
mod collapse;
mod counted;
mod doubles;
mod ecn;
mod favoured;
mod l4s;
mod lent;
mod log_in;
mod modems;
mod names;
mod own;
mod pages;
mod quic;
mod subnet;
mod throughput;
