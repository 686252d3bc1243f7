"""Transactional publishing: several MPUBs become visible together, once, however often they are sent."""
