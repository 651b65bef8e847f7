"""The composition root: settings, doors that belong to no single app, people and roles, the embedded platform, the demo."""
