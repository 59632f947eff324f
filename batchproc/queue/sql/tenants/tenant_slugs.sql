select tenant_id, slug from batchproc.tenants where tenant_id = any(%s)
