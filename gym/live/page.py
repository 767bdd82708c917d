def publish(series):
    pass
