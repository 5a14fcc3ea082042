"""Reinforcement learning as small pure functions, and the rollout that joins them to a market."""
