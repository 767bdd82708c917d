SELECT work();
