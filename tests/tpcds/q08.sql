-- The 400 zip codes of the standard's text are cut to the first of them.
select s_store_name, sum(ss_net_profit)
from
    store_sales,
    date_dim,
    store,
    (
        select ca_zip
        from (
            select substring(ca_zip, 1, 5) ca_zip
            from customer_address
            where substring(ca_zip, 1, 5) in (
                '24128', '76232', '65084', '87816', '83926', '77556', '20548', '26231', '43848', '15126', '91137',
                '61265', '98294', '25782', '17920', '18426', '98235', '40081', '84093', '28577', '55565', '17183',
                '54601', '67897', '22752', '86284', '18376', '38607', '45200', '21756', '29741', '96765', '23932',
                '89360', '29839', '25989', '28898', '91068', '72550', '10390', '18845', '47770', '82636', '41367',
                '76638', '86198', '81312', '37126', '39192', '88424', '72175', '81426', '53672', '10445', '42666'
            )
            intersect
            select ca_zip
            from (
                select substring(ca_zip, 1, 5) ca_zip, count(*) cnt
                from customer_address, customer
                where ca_address_sk = c_current_addr_sk and c_preferred_cust_flag = 'Y'
                group by ca_zip
                having count(*) > 10
            ) a1
        ) a2
    ) v1
where
    ss_store_sk = s_store_sk
    and ss_sold_date_sk = d_date_sk
    and d_qoy = 2
    and d_year = 1998
    and (substring(s_zip, 1, 2) = substring(v1.ca_zip, 1, 2))
group by s_store_name
order by s_store_name
limit 100
