"""The pages. Only this package and `api` see a request."""
