"""Looking inside modules: name pattern → hooks → pure measurements → frames; always detaches."""
