"""What happens to messages: handlers in tasks and threads, batches, or somebody who asks for them."""
