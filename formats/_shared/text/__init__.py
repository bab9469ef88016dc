"""Text, XML and YAML: lines split into tokens and numbers, files of labels, and elements as records."""
