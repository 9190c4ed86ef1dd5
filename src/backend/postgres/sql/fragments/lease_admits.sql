-- Whether the lease in the row `leased` admits a write with the fencing token $2, as in `lease::admit`. A write without a token
-- does not pass an expired lease: `leases::explain_refusal` ends that lease first.
CASE
  WHEN leased.lease_number IS NULL THEN $2::bigint IS NULL
  WHEN $2 IS NULL THEN leased.lease_expires = 0
  ELSE leased.lease_number = $2 AND leased.lease_expires > 0
END
