DROP INDEX purchase_of_customer;
