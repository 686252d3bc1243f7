"""The parts of `nsqlake demo`: a child nsqd, sample traffic, and a line that shows it flowing."""
